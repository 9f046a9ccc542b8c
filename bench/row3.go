package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// oneCaller is row 3: how long a cycle takes when nobody shares its commits. Its
// floor is what it cannot do without, measured just before each turn.
func oneCaller(ctx context.Context, b *bench) ([]line, error) {
	recorded, err := recordCycle(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	inside := &contestant{name: "in process", order: order{Callers: 1}}
	outside := &contestant{name: "over HTTP", order: order{Callers: 1, HTTP: true}}
	var least []float64
	var problems []string
	for pair := range b.pairs {
		f, err := measureFloors(b.dir, b.window/5)
		if err != nil {
			return nil, err
		}
		least = append(least, (time.Duration(len(recorded))*f.flush + time.Duration(recorded.events())*f.sign).Seconds())
		sides := []*contestant{inside, outside}
		if pair%2 == 1 {
			slices.Reverse(sides)
		}
		for _, c := range sides {
			found, err := b.turn(ctx, recorded.events(), c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			for _, p := range found {
				problems = append(problems, c.name+": "+p)
			}
		}
	}
	note := func(c *contestant) string {
		return fmt.Sprintf("p50 %v; floor %v of %d flushes and %d signatures", seconds(median(c.p50s)), seconds(median(least)), len(recorded), recorded.events())
	}
	return []line{
		{row: 3, name: "one caller: cycle p50 / floor", pairs: ratios(inside.p50s, least), aim: atMost(2.0), problems: problems, note: note(inside)},
		{row: 3, name: "the same over HTTP", pairs: ratios(outside.p50s, least), aim: atMost(3.5), problems: problems, note: note(outside)},
	}, nil
}

func seconds(s float64) time.Duration { return round(time.Duration(s * float64(time.Second))) }
