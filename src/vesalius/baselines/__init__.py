"""What to beat: simple predictors, one module for each kind of task."""
