// Package contextclient lets the component that invokes a model speak
// seif.http-turn.v1: it opens a turn, fetches context for the model, and reports how the
// call ended.
//
//	client, err := contextclient.FromEnvironment(contextclient.Config{})
//	...
//	go client.Deliver(ctx)
//	defer client.Close()
//	err = client.Run(ctx, question, func(ctx context.Context, c contextclient.Context) error {
//		answer, err = model(ctx, c.Text, question)
//		return err
//	})
//
// [Client.Run] is the whole sequence: start and context before the model, the model's call
// alone in the guarded part, and the report when it has returned. It returns what the call
// returns; trouble with the turn, the context or the report never stands in its place. The
// steps are there one by one as [Client.Start], the [Tools] of the turn, [Turn.Observe] and
// [Turn.Complete].
//
// # When something fails
//
// A start that is not answered is repeated with its key, a few times, before anything of the
// turn has been handed to the model. After that the call goes on without a turn, and is told so
// in [Context].Problems: what to do without a turn or without context is for the application to
// decide. [Config].OnTrouble hears it too, so that nothing of it is silent: a warning in the log
// unless the application says otherwise.
//
// A start takes five seconds at most, with all its repetitions, and every other request five:
// [Config].StartWithin and the Timeout of [Config].HTTP say otherwise. With a server that hangs a
// call of [Client.Run] is so delayed by five seconds when there is no turn, and by ten otherwise:
// its context, and its report after the model has answered.
//
// Observations and completions go through an outbox (package contextclient/outbox): at most
// 100, for at most 24 hours, each under its first Idempotency-Key until the server has answered
// it. The error [ErrQueued] says that one waits there. [Client.Deliver] sends what waits, for
// as long as the program runs; [Client.Flush] sends it now, and so does [Client.Close] at the
// program's end, for two seconds, after which it tells what is lost. An outbox in a file outlives the
// process, the default one in memory does not. A refusal of the token keeps a report in the outbox,
// since the right one may deliver it; every other final refusal ends it. A completion waits for the observations of its
// turn in the same outbox, since a closed turn takes none. Until the server has a report, the
// turn is shown as open or as expired, and nothing is inferred from that.
//
// The calls of the tools are not repeated: each answer is a delivery of its own. One that finds the
// Build being opened was none, and is made once more when the server's Retry-After is within
// its bound.
//
// # The token
//
// The bearer token belongs to this component alone: not into prompts, browsers, source control
// or logs. It is in no error and no printed form of this package's values, and is sent to no
// redirect. A base URL is https, or http on loopback.
//
// # What it shows
//
// That context was handed to an HTTP response for this client during this turn, and what this
// client reported then. It does not show what a model read, understood or answered, nor what
// else it used.
package contextclient
