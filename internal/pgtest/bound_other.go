//go:build unix && !linux

package pgtest

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}

func inMemory(string) (bool, error) { return false, nil }
