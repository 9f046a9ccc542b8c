package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// floors are what no program on this machine can go below, measured in this run.
type floors struct {
	flush  time.Duration // p50 of writing 16 KB in place and fsync
	sign   time.Duration // one Ed25519 signature over 32 bytes
	verify time.Duration // one Ed25519 verification over 32 bytes
	sha256 time.Duration // SHA-256 of 1 KB
}

func (f floors) String() string {
	return fmt.Sprintf("flush p50 %v, sign %v, verify %v, SHA-256 of 1 KB %v", round(f.flush), round(f.sign), round(f.verify), round(f.sha256))
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Microsecond {
		return d.Round(10 * time.Nanosecond)
	}
	return d.Round(time.Microsecond)
}

// machineLine names what the ratios were measured on.
func machineLine(f floors) string {
	return fmt.Sprintf("machine: %d cores, %s/%s, %s; %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), f)
}

// measureFloors measures in dir, the folder whose disk the ledgers are on.
func measureFloors(dir string, each time.Duration) (floors, error) {
	flush, err := flushLatency(dir, each)
	if err != nil {
		return floors{}, err
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return floors{}, err
	}
	message, text := make([]byte, sha256.Size), make([]byte, 1<<10)
	signature := ed25519.Sign(private, message)
	return floors{
		flush:  flush,
		sign:   perCall(each, func() { ed25519.Sign(private, message) }),
		verify: perCall(each, func() { ed25519.Verify(public, message, signature) }),
		sha256: perCall(each, func() { sha256.Sum256(text) }),
	}, nil
}

// flushLatency is the median time of what a commit cannot do without: a write of
// a few pages into a file that is there already, as a WAL after its reset, and
// fsync.
func flushLatency(dir string, d time.Duration) (_ time.Duration, err error) {
	const size, chunk = 4 << 20, 16 << 10
	f, err := os.Create(filepath.Join(dir, "flush"))
	if err != nil {
		return 0, err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		os.Remove(f.Name())
	}()
	if _, err := f.Write(make([]byte, size)); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	page := make([]byte, chunk)
	var took []time.Duration
	for end, at := time.Now().Add(d), int64(0); time.Now().Before(end) || len(took) < 20; at = (at + chunk) % size {
		start := time.Now()
		page[0]++
		if _, err := f.WriteAt(page, at); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// perCall calls f for about d and returns the mean time of one call.
func perCall(d time.Duration, f func()) time.Duration {
	n, start := 0, time.Now()
	for time.Since(start) < d {
		for range 16 {
			f()
		}
		n += 16
	}
	return time.Since(start) / time.Duration(n)
}
