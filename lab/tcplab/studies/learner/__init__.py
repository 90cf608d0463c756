"""The learner's results in campaigns with bounds."""
