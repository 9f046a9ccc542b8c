package hosted

import (
	"context"
	"time"

	"countersign/dispatch"
	"countersign/internal/supervision/ask"
)

// sendGrace is how long a sender that has run out of time may take to say whether
// anything left.
const sendGrace = time.Second

// Bounded is a sender that is asked no longer than patience, whatever it does with its
// context, and whose panic is a failure like any other. What it answers later is not
// heard: the outcome is unknown by then, and stays so until the store is asked again.
func Bounded(s Sender, patience time.Duration) Sender { return bounded{s, patience} }

type bounded struct {
	Sender
	patience time.Duration
}

func (b bounded) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	return ask.Within(ctx, sendGrace, func(ctx context.Context) (dispatch.Answer, error) { return b.Sender.Send(ctx, r) })
}
