package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"countersign/evidence"
	verifier "countersign/internal/audit"
	"countersign/internal/ledger/sqlite"
)

// chainFile is an export with its trusted key.
type chainFile struct {
	path   string
	keys   evidence.Keys
	events int
	mean   int // bytes of one event as it stands in the file
}

// writeChain repeats the events of a real run, sealed anew one behind the other,
// as an export of n events. A run has at most 5,000 events, so the chain is no
// lawful run: this row measures integrity, the part that grows with the chain.
func writeChain(ctx context.Context, dir string, n int) (_ *chainFile, err error) {
	source := filepath.Join(dir, "chain")
	if err := initFolder(ctx, source, ""); err != nil {
		return nil, err
	}
	l, err := openLedger(ctx, source, "", sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close(), os.RemoveAll(source)) }()
	p, err := openPlane(source, l)
	if err != nil {
		return nil, err
	}
	id, err := p.newRun(ctx)
	if err != nil {
		return nil, err
	}
	for range 20 {
		if _, err := p.cycle(ctx, id, cycled); err != nil {
			return nil, err
		}
	}
	real, _, err := p.Events(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	subject, err := real[0].Subject()
	if err != nil {
		return nil, err
	}
	key, now := p.keys.Evidence(), time.Now()
	events, link := make([]evidence.Event, 0, n), evidence.Link{Hash: evidence.Genesis}
	for i := range n {
		e := &real[0]
		if i > 0 {
			e = &real[1+(i-1)%(len(real)-1)]
		}
		sealed, err := evidence.Seal(key, id, link, now, []evidence.Draft{{ID: bareID(), Type: e.Type, Data: e.Data}})
		if err != nil {
			return nil, err
		}
		events, link = append(events, sealed[0]), evidence.Link{Sequence: sealed[0].Sequence, Hash: sealed[0].Hash}
	}
	c := &chainFile{path: filepath.Join(dir, fmt.Sprintf("chain-%d.json", n)), keys: evidence.Keys{{Public: key.Public()}}, events: n}
	f, err := os.Create(c.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	err = evidence.WriteExport(out, key, now, evidence.Source{
		Subject: subject, Head: link,
		Events: func(yield func(evidence.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		},
	})
	if err := errors.Join(err, out.Flush()); err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	c.mean = int(size) / n
	return c, err
}

// verifyOn verifies the file with so many workers and processors, and with the
// batch when there is one. It returns the time and the most heap that live and
// dead objects took at once.
func (c *chainFile) verifyOn(cores int, batch *evidence.Batch) (took time.Duration, heap uint64, problem string, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	f, err := os.Open(c.path)
	if err != nil {
		return 0, 0, "", err
	}
	defer f.Close()
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	start := time.Now()
	report, err := evidence.Verify(f, c.keys, evidence.Options{Workers: cores, Batch: batch, Each: func(e evidence.Event) error {
		if e.Sequence%256 == 0 {
			metrics.Read(sample)
			heap = max(heap, sample[0].Value.Uint64())
		}
		return nil
	}})
	took = time.Since(start)
	switch {
	case err != nil:
		return 0, 0, "", err
	case !report.OK() || report.Count != int64(c.events):
		problem = fmt.Sprintf("the export of %d events does not verify", c.events)
	}
	return took, heap, problem, nil
}

// damaged reports whether one changed signature is found; without it a fast
// verification would prove nothing.
func (c *chainFile) damaged(batch *evidence.Batch) (bool, error) {
	raw, err := os.ReadFile(c.path)
	if err != nil {
		return false, err
	}
	at := len(raw) / 2
	at += bytes.Index(raw[at:], []byte(`"signature":"`)) + len(`"signature":"`)
	if raw[at] == 'A' {
		raw[at] = 'B'
	} else {
		raw[at] = 'A'
	}
	report, err := evidence.Verify(bytes.NewReader(raw), c.keys, evidence.Options{Batch: batch})
	if err != nil {
		return true, nil // refused as an export, which is as good
	}
	return !report.OK(), nil
}

// floorOfEvent is one verification and one hash of an event's bytes.
func floorOfEvent(b *bench, text []byte) (time.Duration, error) {
	f, err := measureFloors(b.dir, b.window/10)
	return f.verify + perCall(b.window/10, func() { sha256.Sum256(text) }), err
}

// verification is row 5.
func verification(ctx context.Context, b *bench) ([]line, error) {
	long, short := 100_000, 10_000
	if b.quick {
		long, short = 4_000, 2_000
	}
	small, err := writeChain(ctx, b.dir, short)
	if err != nil {
		return nil, err
	}
	for _, batch := range []*evidence.Batch{nil, &verifier.ZIP215} {
		if found, err := small.damaged(batch); err != nil {
			return nil, err
		} else if !found {
			return nil, errors.New("a changed signature was not found")
		}
	}
	large, err := writeChain(ctx, b.dir, long)
	if err != nil {
		return nil, err
	}
	text := make([]byte, large.mean)
	perCore := line{row: 5, name: "verify / (signature + SHA-256), per core", aim: atLeast(0.8)}
	twoCores := line{row: 5, name: "two cores / one", aim: atLeast(1.8)}
	flat := line{row: 5, name: fmt.Sprintf("peak heap, %d / %d events", long, short), aim: atMost(1.25)}
	batches := line{row: 5, name: "batch option / plain", aim: atLeast(1.5)}
	var one, two, batched, heaps, batchHeaps, floor []float64
	var problems []string
	for range b.pairs {
		before, err := floorOfEvent(b, text)
		if err != nil {
			return nil, err
		}
		took1, heapLong, problem1, err1 := large.verifyOn(1, nil)
		after, floorErr := floorOfEvent(b, text)
		took2, _, problem2, err2 := large.verifyOn(2, nil)
		_, heapShort, problem3, err3 := small.verifyOn(1, nil)
		tookBatch, heapBatch, problem4, err4 := large.verifyOn(1, &verifier.ZIP215)
		if err := errors.Join(floorErr, err1, err2, err3, err4); err != nil {
			return nil, err
		}
		for _, p := range []string{problem1, problem2, problem3, problem4} {
			if p != "" && !slices.Contains(problems, p) {
				problems = append(problems, p)
			}
		}
		least := min(before, after)
		rate1, rate2 := float64(long)/took1.Seconds(), float64(long)/took2.Seconds()
		one, two, heaps, floor = append(one, rate1), append(two, rate2), append(heaps, float64(heapLong)/(1<<20)), append(floor, 1/least.Seconds())
		perCore.pairs = append(perCore.pairs, rate1*least.Seconds())
		twoCores.pairs = append(twoCores.pairs, rate2/rate1)
		flat.pairs = append(flat.pairs, float64(heapLong)/float64(heapShort))
		rateBatch := float64(long) / tookBatch.Seconds()
		batched, batchHeaps = append(batched, rateBatch), append(batchHeaps, float64(heapBatch)/(1<<20))
		batches.pairs = append(batches.pairs, rateBatch/rate1)
	}
	perCore.note = fmt.Sprintf("%.0f events/s with parsing, floor %.0f; %d events of %d bytes; integrity only, without replay", median(one), median(floor), long, large.mean)
	twoCores.note = fmt.Sprintf("%.0f and %.0f events/s on %d cores of the machine", median(two), median(one), runtime.NumCPU())
	flat.note = fmt.Sprintf("%.1f MB at most; the commitments repeat, a new one costs about 100 bytes", median(heaps))
	batches.note = fmt.Sprintf("%.0f and %.0f events/s on one core, by ZIP 215; %.1f MB at most", median(batched), median(one), median(batchHeaps))
	lines := []line{perCore, twoCores, flat, batches}
	for i := range lines {
		lines[i].problems = slices.Clone(problems)
	}
	if median(perCore.pairs) > 1 {
		lines[0].problems = append(lines[0].problems, "it was faster than its floor: something else was running")
	}
	if runtime.NumCPU() < 2 {
		lines[1].problems = append(lines[1].problems, "this machine has one core")
	}
	return lines, nil
}
