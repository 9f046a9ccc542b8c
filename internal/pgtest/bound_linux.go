package pgtest

import "syscall"

// dieWithParent makes the kernel stop the child as a crash would when this
// process is gone.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }

// Magic numbers of statfs(2).
const (
	tmpfs = 0x01021994
	ramfs = 0x858458f6
)

// inMemory says whether dir is on a file system that does not survive power
// loss, where flushing costs and proves nothing.
func inMemory(dir string) (bool, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return false, err
	}
	return int64(s.Type) == tmpfs || int64(s.Type) == ramfs, nil
}
