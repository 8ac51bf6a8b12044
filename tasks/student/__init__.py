"""What is learned from released labels, and so is free to publish.

Offers       `study` (fit, evaluate), `model` (the published file)
"""
