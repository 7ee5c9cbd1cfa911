fn scaled(x) = 2 × x

fn shifted(x) = x − 1

fn сentred(x) = x
