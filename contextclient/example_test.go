package contextclient_test

import (
	"context"
	"log"
	"os"

	"countersign/contextclient"
)

func model(context.Context, string, string) (string, error) { return "", nil }

// What stands around a model's call.
func Example() {
	ctx, question := context.Background(), "How long can an order be returned?"
	client, err := contextclient.FromEnvironment(contextclient.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go client.Deliver(ctx)
	var answer string
	err = client.Run(ctx, question, func(ctx context.Context, c contextclient.Context) (err error) {
		answer, err = model(ctx, c.Text, question)
		return err
	})
	client.Close() // at the program's end
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.WriteString(answer)
}
