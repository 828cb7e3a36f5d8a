"""The options and the help of every command. The modules beside this package implement the commands."""
