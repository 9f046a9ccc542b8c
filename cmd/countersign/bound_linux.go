package main

import "syscall"

// dieWithParent has the kernel kill the child when this process ends in any way.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
