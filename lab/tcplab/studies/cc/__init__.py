"""tcpilot's congestion controls beside the kernel's: `modules` judges the campaign of that name."""
