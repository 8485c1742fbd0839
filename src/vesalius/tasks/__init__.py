"""What a trained model is used for: a module a task, each a function of text, images or series."""
