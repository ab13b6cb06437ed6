"""What a decision of NeuralUCB costs in time and memory, by candidates and parameters: published and exact forms."""

NAME = "bottleneck"
SUMMARY = "what a NeuralUCB decision costs, by candidates and parameters (minutes, on a machine at rest)"
QUESTION = "Is exact NeuralUCB too dear to serve, as its publication says?"

__all__ = ["NAME", "QUESTION", "SUMMARY"]
