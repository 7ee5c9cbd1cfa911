# Many steps of a series that has begun (chapter 8): the model of forecast.dsl gets its own results back.

from "forecast.dsl" import causal_net

model ahead(x: f32[N, P, 1], steps = 24, context = 16) -> y: [N, steps, 1] where P <= context:
    use net = causal_net
    y = causal_rollout(x, f = net, steps = steps, context = context)
