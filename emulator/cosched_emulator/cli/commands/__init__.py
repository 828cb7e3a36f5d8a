"""What can be typed: the options and the help of every command. What a command does stands in the modules beside this package."""
