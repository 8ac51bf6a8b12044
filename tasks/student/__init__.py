"""What is learned from released labels and sums, and so is free to publish.

Offers       `study` (fit, evaluate), `model` (the published file); of tallies: `decode` (the model that released sums
             tell of), by way of `joint` (Gauss–Newton steps), `prior` (learned from the sums; public rows made
             like the private ones), and `infer` (labels, questions and the linear student)
"""
