//go:build !linux

package main

import "syscall"

// dieWithParent does nothing where the kernel offers nothing: after kill -9 the
// children go on until they are stopped.
func dieWithParent(*syscall.SysProcAttr) {}
