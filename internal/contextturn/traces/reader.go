package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// ErrUnavailable means that the ledger could not be read.
var ErrUnavailable = errors.New("context: the ledger does not answer")

// Ledger is what reading needs of a ledger engine.
type Ledger interface {
	Now(context.Context) (time.Time, error)
	Load(context.Context, ledger.Key) (ledger.Subject, time.Time, error)
	Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error)
	Text(ctx context.Context, key ledger.Key, commitment string) (evidence.Text, error)
	Find(context.Context, ledger.Query) ([]ledger.Subject, error)
}

// Chains writes the signed evidence of a subject.
type Chains interface {
	ExportChain(ctx context.Context, key ledger.Key, w io.Writer) error
}

// Attributes that lists filter by.
const (
	AttributeProject      = "project"
	AttributeClient       = "client"
	AttributeTurn         = "turn"
	AttributeStatus       = "status"        // project, a space, status
	AttributeClientStatus = "client.status" // client, a space, status
)

// PageSize is how many subjects are read at once.
const PageSize = 100

// Reader is safe for concurrent use.
type Reader struct {
	ledger    Ledger
	chains    Chains
	workspace string
}

// New returns a reader.
func New(l Ledger, chains Chains, workspace string) *Reader { return &Reader{l, chains, workspace} }

// Key names a subject of the workspace.
func (r *Reader) Key(kind, id string) ledger.Key {
	return ledger.Key{Workspace: r.workspace, Kind: kind, ID: id}
}

// Now is the time of a decision about what does not exist yet.
func (r *Reader) Now(ctx context.Context) (evidence.Time, error) {
	now, err := r.ledger.Now(ctx)
	if err != nil {
		return 0, Unavailable(err)
	}
	return evidence.TimeOf(now), nil
}

// Unavailable wraps an error of the ledger.
func Unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// Denied is a denial.
func Denied(reason, detail string) error { return &authority.Denial{Reason: reason, Detail: detail} }

// Load reads a subject with the time of the read and decodes its state. A subject that is
// not there is a denial with the reason, and the time is valid.
func Load[S any](ctx context.Context, r *Reader, key ledger.Key, decode func([]byte) (*S, error), reason, detail string) (ledger.Subject, *S, evidence.Time, error) {
	subject, now, err := r.ledger.Load(ctx, key)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return subject, nil, evidence.TimeOf(now), Denied(reason, detail)
	case err != nil:
		return subject, nil, 0, Unavailable(err)
	}
	s, err := decode(subject.State)
	return subject, s, evidence.TimeOf(now), err
}

// ProjectState reads a project.
func (r *Reader) ProjectState(ctx context.Context, id string) (ledger.Subject, *project.Project, evidence.Time, error) {
	return Load(ctx, r, r.Key(project.Kind, id), project.Decode, authority.NotFound, "There is no such project.")
}

// ClientState reads a client.
func (r *Reader) ClientState(ctx context.Context, id string) (ledger.Subject, *project.Client, evidence.Time, error) {
	return Load(ctx, r, r.Key(project.KindClient, id), project.DecodeClient, authority.NotFound, "There is no such client.")
}

// TurnState reads a turn.
func (r *Reader) TurnState(ctx context.Context, id string) (ledger.Subject, *turn.State, evidence.Time, error) {
	return Load(ctx, r, r.Key(turn.Kind, id), turn.DecodeState, turn.TurnNotFound, "There is no such turn.")
}

// Exists denies a project that does not exist.
func (r *Reader) Exists(ctx context.Context, projectID string) error {
	_, _, err := r.ledger.Load(ctx, r.Key(project.Kind, projectID))
	if errors.Is(err, ledger.ErrNotFound) {
		return Denied(authority.NotFound, "There is no such project.")
	}
	if err != nil {
		return Unavailable(err)
	}
	return nil
}

// In denies what belongs to another project.
func In(projectID, of, what string) error {
	if projectID != of {
		return Denied(authority.NotFound, "There is no such "+what+".")
	}
	return nil
}

// Text reads an erasable text; nil when there is none, or none any more.
func (r *Reader) Text(ctx context.Context, key ledger.Key, c *evidence.Commitment) (*string, error) {
	if c == nil {
		return nil, nil
	}
	t, err := r.ledger.Text(ctx, key, c.Text)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, Unavailable(err)
	}
	return &t.Text, nil
}

// Page reads subjects, newest id first, and the cursor behind them. A limit outside 1 to
// 100 means 50.
func (r *Reader) Page(ctx context.Context, kind string, where []ledger.Attribute, before string, limit int) (list []ledger.Subject, next string, err error) {
	limit = Limited(limit)
	list, err = r.ledger.Find(ctx, ledger.Query{Workspace: r.workspace, Kind: kind, Where: where, Before: before, Limit: limit})
	if err != nil {
		return nil, "", Unavailable(err)
	}
	if len(list) == limit {
		next = list[limit-1].ID
	}
	return list, next, nil
}

// Limited is a limit within 1 to 100; 50 stands for any other.
func Limited(limit int) int {
	if limit < 1 || limit > PageSize {
		return 50
	}
	return limit
}
