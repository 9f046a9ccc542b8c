package main

import "io"

const childArgument = "child"

func child(io.Reader, io.Writer) int { return 2 }
