"""What is learned from released labels and sums, and so is free to publish.

Offers       `study` (fit, evaluate), `model` (the published file), `evaluate` (on public labelled rows); of tallies:
             `decode` (the model that released sums tell of), by way of `joint` (Gauss–Newton steps), `prior` (learned
             from the sums; public rows made like the private ones), and `infer` (labels, questions and the linear
             student)
Its own      `concord_student` and `concord_tallied` (travel with a student), `onnx` (it as a graph), `trust` (which
             types its file may hold)
"""
