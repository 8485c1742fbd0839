"""How good predictions are, in the numbers that people compare.

scikit-learn counts where it has the metric; what it lacks is written here.
"""
