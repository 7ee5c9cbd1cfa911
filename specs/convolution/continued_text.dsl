# Text written by the model of text.dsl behind a prompt (chapter 8): drawn token by token, and the most
# probable continuations that a beam search finds.

from "text.dsl" import causal_text

model continued_text(
    prompt: i32[N, P] < vocabulary,
    vocabulary = 64,
    steps = 16,
    temperature = 1.0,
    beams = 4,
    end = -1,
) -> (
    drawn: [N, P + steps], best: [N, beams, P + steps], log_p: [N, beams]
) where beams <= vocabulary:
    use net = causal_text(vocabulary = vocabulary)
    drawn = continued(prompt, net, vocabulary, steps, temperature = temperature, end = end)
    best, log_p = beam_search(prompt, net, vocabulary, steps, beams = beams, end = end)
