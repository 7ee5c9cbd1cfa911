from "import_with_an_error_inside_other.dsl" import wide

model network(x: f32[N, 8]) -> y: [N, 8]:
    y = wide(x)
