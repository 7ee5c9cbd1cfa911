# Sequences x[n, t, c] of unequal lengths, forecasts, and text that is continued token by token
# (chapter 8).

# Which positions hold data in a batch of sequences that are padded to one length: the rows of
# ones, then zeros, of section 8.2.1.
fn within(length: i32[N], steps: size) -> keep: bool[N, T = steps]:
    keep[n, t: steps] = t < length[n]

# Zeros at the positions that hold no data.
fn masked(x: [N, T, C], keep: bool[N, T]) -> y: [N, T, C]:
    y[n, t, c] = x[n, t, c] if keep[n, t] else 0

# The mean over the positions that hold data (section 8.2.1); 0 where none does.
fn masked_mean(x: [N, T, C], keep: bool[N, T]) -> y: [N, C]:
    total[n, c] = sum[t](x[n, t, c] if keep[n, t] else 0)
    count[n] = sum[t](1.0 if keep[n, t] else 0.0)
    y[n, c] = total[n, c] / max(count[n], 1)

# All windows of a series, and what follows each of them: the pairs of a forecast (section 8.3.1).
fn windows(
    x: [L, C], length: size
) -> (past: [L - length, length, C], next: [L - length, C]) where L > length:
    past[i: L - length, t: length, c] = x[i + t, c]
    next[i: L - length, c] = x[i + length, c]

# Causal convolution by a mask: the weights of an odd kernel that would see what comes later are 0
# (section 8.3.2).
layer masked_conv1d(
    x: [N, T, C], out: size, kernel = 3, dilation = 1
) -> y: [N, T, O = out] where kernel % 2 == 1:
    param W: [kernel, C, O] ~ he
    param b: [O] ~ zeros
    size K = (kernel - 1) / 2
    M[u: kernel] = 1.0 if u <= K else 0.0
    y[n, t, o] = (x[n, t + dilation*(u - K), c] else 0) * M[u] * W[u, c, o] + b[o]

# Convolutions whose dilation doubles from layer to layer, so that what an output sees grows
# exponentially with the depth (section 8.2.4).
layer dilated_stack(
    x: [N, T, C], out: size, depth: int, kernel = 3, act = relu
) -> y where kernel % 2 == 1:
    y = x
    for l in 0..depth:
        y = y |> conv1d(out, kernel = kernel, dilation = 2^l, pad = 2^l * (kernel - 1) / 2) |> act

# The causal form of dilated_stack (section 8.3.2).
layer causal_stack(x: [N, T, C], out: size, depth: int, kernel = 2, act = relu) -> y:
    y = x
    for l in 0..depth:
        y = y |> causal_conv1d(out, kernel = kernel, dilation = 2^l) |> act

# A forecast of many steps by a layer that forecasts one, f: [N, T, C] -> [N, C]: each result goes
# to the end of its next input, and the first row falls out (equation 8.3).
layer rollout(x: [N, T, C], f: layer, steps: size) -> y: [N, S = steps, C]:
    use predict = f
    scan s in 0..steps:
        next = predict(window[s-1, :, :, :])
        window[s, n, t: T, c] = window[s-1, n, t+1, c] if t < T - 1 else next[n, c]
    start window = x
    y[n, s, c] = window[s, n, T-1, c]

# The same by a causal layer, f: [N, T, C] -> [N, T, C]: begins with fewer rows than `context`, reads
# the row of the last one that is known, and drops the first row when all are full (section 8.3.2).
layer causal_rollout(
    x: [N, P, C], f: layer, steps: size, context: size
) -> y: [N, S = steps, C] where P <= context:
    use predict = f
    first[n, t: context, c] = x[n, t, c] if t < P else 0
    scan s in 0..steps:
        known = min(P + s, context)
        after = predict(window[s-1, :, :, :])
        next[n, c] = after[n, clamp(known - 1), c]
        window[s, n, t: context, c] = (
            (next[n, c] if t == known else window[s-1, n, t, c])
            if known < context
            else window[s-1, n, t+1, c] if t < context - 1 else next[n, c]
        )
        new[s, n, c] = next[n, c]
    start window = first
    start new = 0
    y[n, s, c] = new[s, n, c]

# Text continued token by token, by a causal layer that gives logits, f: [N, T] -> [N, T, V]: each
# token is drawn from softmax(logits / temperature), at temperature 0 it is the most probable one
# (section 8.4.2). Behind a token `end` stands that token alone.
layer continued(
    prompt: i32[N, P] < vocabulary,
    f: layer,
    vocabulary: size,
    steps: size,
    temperature = 1.0,
    end: int = -1,
) -> token: i32[N, P + steps] < vocabulary:
    use predict = f
    first[n, t: P + steps] = prompt[n, t] if t < P else 0
    if temperature == 0:
        noise[s: steps, n: N, v: vocabulary] = 0.0
    else:
        noise[s: steps, n: N, v: vocabulary] = temperature * gumbel[s, n, v]()
    scan s in 0..steps:
        logits = predict(clip(text[s-1, :, :], 0, vocabulary - 1))
        drawn[n] = argmax[v](logits[n, P+s-1, v] + noise[s, n, v])
        next[n] = end if text[s-1, n, P+s-1] == end else drawn[n]
        text[s, n, t: P + steps] = i32(next[n]) if t == P + s else text[s-1, n, t]
    start text = first
    token[n, t] = clip(text[steps-1, n, t], 0, vocabulary - 1)

# The `beams` most probable continuations that a search finds which keeps as many of them after each
# token (section 8.4.2), with the logarithms of their probabilities, the best one first.
layer beam_search(
    prompt: i32[N, P] < vocabulary,
    f: layer,
    vocabulary: size,
    steps: size,
    beams: size,
    end: int = -1,
) -> (token: i32[N, beams, P + steps] < vocabulary, log_p: [N, beams]) where beams <= vocabulary:
    use predict = f
    first[n, k: beams, t: P + steps] = prompt[n, t] if t < P else 0
    alone[n: N, k: beams] = 0.0 if k == 0 else -inf
    scan s in 0..steps:
        flat[(n k), t] = clip(text[s-1, n, k, t], 0, vocabulary - 1)
        logits = predict(flat)
        step[n, k, v] = log_softmax[v](logits[(n k), P+s-1, v]) where k = beams
        over[n, k] = text[s-1, n, k, P+s-1] == end
        total[n, k, v] = (
            score[s-1, n, k] + ((0.0 if v == end else -inf) if over[n, k] else step[n, k, v])
        )
        every[n, (k v)] = total[n, k, v]
        value[n, j], place[n, j] = top_k[i -> j: beams](every[n, i])
        score[s, n, j] = value[n, j]
        text[s, n, j, t: P + steps] = (
            i32(place[n, j] % vocabulary)
            if t == P + s
            else text[s-1, n, place[n, j]//vocabulary, t]
        )
    start text = first
    start score = alone
    token[n, k, t] = clip(text[steps-1, n, k, t], 0, vocabulary - 1)
    log_p[n, k] = score[steps-1, n, k]

# The logarithm of the probability of each sequence behind its first token, from the logits of a
# causal layer at all positions: the product of equation 8.5 as a sum.
fn log_probability(logits: [N, T, V], token: i32[N, T] < V) -> log_p: [N] where T >= 2:
    p[n, t, v] = log_softmax[v](logits[n, t, v])
    log_p[n] = sum[t](p[n, t, token[n, t+1]] if t < T - 1 else 0)
