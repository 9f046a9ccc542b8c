package contextclient

import (
	"context"
	"time"
)

// WithWait makes wait stand for the time between two attempts to start.
func WithWait(c Config, wait func(context.Context, time.Duration) error) Config {
	c.wait = wait
	return c
}
