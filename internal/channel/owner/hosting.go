package owner

import (
	"context"

	"countersign/evidence"
)

// Hosting is how the installation is hosted, as of CheckedAt (H-230). It holds no path
// and no address of a database.
type Hosting struct {
	Database   Database      `json:"database"`
	Runtime    Runtime       `json:"runtime"`
	Worker     Worker        `json:"worker"`
	SigningKey string        `json:"signingKey" doc:"keyId of the evidence key in use." example:"3f5a9c0d1e2b4a68"`
	CheckedAt  evidence.Time `json:"checkedAt"`
}

// Database is the ledger's.
type Database struct {
	Engine    string `json:"engine" enum:"sqlite,postgres"`
	Connected bool   `json:"connected" doc:"A write is possible."`
}

// Runtime is where the program runs.
type Runtime struct {
	Location string `json:"location" enum:"local" doc:"local: one process on the machine that answers; nothing is hosted elsewhere."`
	Platform string `json:"platform" example:"linux/amd64"`
	Origin   string `json:"origin" doc:"Where it is served." example:"http://localhost:8420"`
}

// Worker is the background work of the process: it settles what time has brought about.
type Worker struct {
	Name       string         `json:"name" enum:"settler"`
	InProcess  bool           `json:"inProcess"`
	Status     string         `json:"status" enum:"running,stalled,stopped" doc:"stalled: its newest round ended more than 10 s ago."`
	LastPassAt *evidence.Time `json:"lastPassAt" nullable:"true" doc:"When its newest round ended."`
}

type hostingOutput struct{ Body Hosting }

func (o *owner) hosting(ctx context.Context, _ *struct{}) (*hostingOutput, error) {
	h, err := o.Config.Hosting(ctx)
	if err != nil {
		return nil, err
	}
	return &hostingOutput{h}, nil
}
