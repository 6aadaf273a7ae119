"""What becomes of the frames of a clip: a plan before they are decoded, pixels after; the same for all its frames."""
