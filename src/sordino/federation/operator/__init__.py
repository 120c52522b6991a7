"""The operator: who asks the sites, adds up what they release, and keeps the model."""
