package sqlite

import (
	"fmt"
	"runtime/debug"
)

// The driver is C translated to Go and works on the memory of its own libc:
// with any other version than the one it was released with it fails in obscure
// ways. The pair is that of the driver's own go.mod.
const (
	driverModule, driverVersion = "modernc.org/sqlite", "v1.62.0"
	libcModule, libcVersion     = "modernc.org/libc", "v1.80.1"
)

// checkLinked refuses a program that was linked with another pair. A program
// built without module information cannot be checked and is let through.
func checkLinked() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return checkPair(info.Deps)
}

func checkPair(deps []*debug.Module) error {
	want := map[string]string{driverModule: driverVersion, libcModule: libcVersion}
	for _, dep := range deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		if version, ok := want[dep.Path]; ok && version != dep.Version {
			return fmt.Errorf("sqlite: linked with %s %s, tested with %s", dep.Path, dep.Version, version)
		}
	}
	return nil
}
