import "import_of_a_broken_file_other.dsl"

model network(x: f32[N, 8]) -> y: [N, 8]:
    y = x |> wide |> bent
