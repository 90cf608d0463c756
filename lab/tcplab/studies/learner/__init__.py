"""What the learner reaches in the campaigns that have bounds for it."""
