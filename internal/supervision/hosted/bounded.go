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

// Bounded is a sender that is asked no longer than [dispatch.SendTimeout], whatever it
// does with its context, and whose panic is a failure like any other. What it answers
// later is not heard: the outcome is unknown by then, and stays so until the store is
// asked again.
func Bounded(s Sender) Sender { return bounded{s} }

type bounded struct{ Sender }

func (b bounded) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, dispatch.SendTimeout)
	defer cancel()
	return ask.Within(ctx, sendGrace, func(ctx context.Context) (dispatch.Answer, error) { return b.Sender.Send(ctx, r) })
}
