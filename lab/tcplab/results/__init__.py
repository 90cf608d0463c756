"""Result directories: immutable records of campaigns."""
