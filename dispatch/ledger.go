package dispatch

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Schema creates the permit ledger in the shop's own database: one row for every
// permit that counts no more. It is written for SQLite and PostgreSQL alike, and
// so are the statements of [Ledger] (placeholders $1, ON CONFLICT DO NOTHING,
// savepoints). A row stays at least as long as the order it explains.
const Schema = `CREATE TABLE IF NOT EXISTS dispatch_ledger (
	jti     TEXT NOT NULL PRIMARY KEY,
	pid     TEXT NOT NULL,
	sid     TEXT NOT NULL,
	bh      TEXT NOT NULL,
	result  TEXT NOT NULL CHECK (result IN ('applied', 'refused', 'closed')),
	receipt TEXT NOT NULL
);
`

// Ledger spends and closes permits inside the shop's transactions. It is
// safe for concurrent use as long as its fields are not changed.
//
// A transaction must see rows that were committed while it waited for the row of
// the same permit: on SQLite begin it with BEGIN IMMEDIATE, on PostgreSQL use
// READ COMMITTED, the default. One transaction may hold one call.
type Ledger struct {
	Origin string             // the shop's configured origin, iss of receipts
	Key    ed25519.PrivateKey // the shop's receipt key
	Now    func() time.Time   // nil: time.Now

	without Reason // a check that tests leave out, to see that it is the one that protects
}

// spent names the check that a permit counts once. Its answer is 409 and no
// [PermitError], so it is no reason of the wire.
const spent Reason = "spent"

// Effect is what the shop did for a permit.
type Effect struct {
	Status      int    // of the answer, 200 to 299
	Body        []byte // of the answer: JSON
	OrderID     string // empty when there is no order
	AmountCents string // charged, a decimal string; empty when nothing was charged
}

// Refusal is the shop's no to a permit that is valid.
type Refusal struct {
	ReasonCode string // such as PRICE_CHANGED
	Detail     string // a sentence for people
}

func (e *Refusal) Error() string { return "dispatch: refused: " + e.ReasonCode }

// Refuse returns a *[Refusal] for the function given to [Ledger.Spend] to return.
func Refuse(reasonCode, detail string) error { return &Refusal{reasonCode, detail} }

// Spend spends a verified permit and does its effect in one step of tx. The row
// of the permit is written first, which takes the write lock; the expiry is tested
// again behind it.
//
//   - effect returns an Effect: the answer has it, with a receipt "applied".
//   - effect returns a [Refusal]: its changes are undone, and the answer is 422
//     problem+json with a receipt "refused".
//   - the permit was spent or closed before: effect is not called, and the answer
//     is 409 DISPATCH_PERMIT_SPENT with the stored receipt.
//
// In these cases commit tx and then write the answer. On an error, tx holds
// nothing of this call: roll it back and write [AnswerError].
func (l *Ledger) Spend(ctx context.Context, tx *sql.Tx, p Permit, effect func() (Effect, error)) (Answer, error) {
	return savepoint(ctx, tx, "dispatch_permit", func() (Answer, error) {
		if a, counted, err := l.claim(ctx, tx, p); err != nil || counted {
			return a, err
		}
		var done Effect
		_, err := savepoint(ctx, tx, "dispatch_effect", func() (Answer, error) {
			var err error
			done, err = effect()
			return Answer{}, err
		})
		var refusal *Refusal
		if errors.As(err, &refusal) {
			answer, err := encodeProblem(problem{Status: 422, ReasonCode: refusal.ReasonCode, Detail: refusal.Detail})
			if err != nil {
				return Answer{}, err
			}
			return l.finish(ctx, tx, p.ID, l.receipt(p, Refused), answer)
		}
		if err != nil {
			return Answer{}, err
		}
		if done.Status < 200 || done.Status > 299 {
			return Answer{}, fmt.Errorf("dispatch: status %d is not one of an effect", done.Status)
		}
		r := l.receipt(p, Applied)
		r.OrderID, r.AmountCents = orNull(done.OrderID), orNull(done.AmountCents)
		return l.finish(ctx, tx, p.ID, r, Answer{Status: done.Status, Body: done.Body})
	})
}

// Close answers a probe. The verified permit of the probe is spent like any
// other; jti names the permit in doubt, as [ParseCloseBody] read it. The answer is
// 200 {"jti","result"} with the receipt stored for jti, or, when there is none,
// with a new receipt "closed", after which a late original is refused by
// [Ledger.Spend]. A row of another session than the probe's is a [PermitError].
// Transactions and errors are as in Spend.
func (l *Ledger) Close(ctx context.Context, tx *sql.Tx, probe Permit, jti string) (Answer, error) {
	if jti == probe.ID {
		return Answer{}, &RequestError{"a probe cannot ask about itself, at /jti"}
	}
	return savepoint(ctx, tx, "dispatch_permit", func() (Answer, error) {
		if a, counted, err := l.claim(ctx, tx, probe); err != nil || counted {
			return a, err
		}
		asked := probe
		asked.ID = jti
		closed, err := insert(ctx, tx, asked, Closed)
		if err != nil {
			return Answer{}, err
		}
		if closed {
			a, err := closeAnswer(jti, Closed)
			if err != nil {
				return Answer{}, err
			}
			r := l.receipt(asked, Closed)
			if a, err = l.finish(ctx, tx, jti, r, a); err != nil {
				return Answer{}, err
			}
			return a, store(ctx, tx, probe.ID, Closed, a.Receipt)
		}
		stored, err := load(ctx, tx, jti)
		if err != nil {
			return Answer{}, err
		}
		if stored.session != probe.Session && l.without != SessionMismatch {
			return Answer{}, &PermitError{SessionMismatch}
		}
		a, err := closeAnswer(jti, stored.result)
		if err != nil {
			return Answer{}, err
		}
		a.Receipt = stored.receipt
		return a, store(ctx, tx, probe.ID, stored.result, a.Receipt)
	})
}

// claim writes the permit's row, or returns the answer that the stored row gives.
// The row says refused with an empty receipt until finish; nobody sees that,
// because an error undoes it.
func (l *Ledger) claim(ctx context.Context, tx *sql.Tx, p Permit) (_ Answer, counted bool, _ error) {
	inserted, err := insert(ctx, tx, p, Refused)
	if err != nil {
		return Answer{}, false, err
	}
	if !inserted && l.without != spent {
		stored, err := load(ctx, tx, p.ID)
		if err != nil {
			return Answer{}, false, err
		}
		a := Problem(409, "DISPATCH_PERMIT_SPENT", "This permit counted before. The receipt says what became of it.")
		a.Receipt = stored.receipt
		return a, true, nil
	}
	if p.expired(clock(l.Now)) && l.without != Expired {
		return Answer{}, false, &PermitError{Expired}
	}
	return Answer{}, false, nil
}

func (l *Ledger) receipt(p Permit, result Result) Receipt {
	return Receipt{
		Issuer: l.Origin, Audience: p.Issuer, ID: p.ID, StepPermit: p.StepPermit, Session: p.Session,
		EffectDigest: p.EffectDigest, BodyHash: p.BodyHash, Operation: p.Operation(), Result: result,
	}
}

// finish signs the receipt over the answer and stores it in the row of jti.
func (l *Ledger) finish(ctx context.Context, tx *sql.Tx, jti string, r Receipt, a Answer) (Answer, error) {
	r.AnswerHash, r.IssuedAt = HashBody(a.Body), clock(l.Now).Unix()
	var err error
	if a.Receipt, err = r.Sign(l.Key); err != nil {
		return Answer{}, err
	}
	return a, store(ctx, tx, jti, r.Result, a.Receipt)
}

func closeAnswer(jti string, result Result) (Answer, error) {
	body, err := Encode(struct {
		ID     string `json:"jti"`
		Result Result `json:"result"`
	}{jti, result})
	return Answer{Status: 200, Body: body}, err
}

func insert(ctx context.Context, tx *sql.Tx, p Permit, result Result) (bool, error) {
	res, err := tx.ExecContext(ctx, `INSERT INTO dispatch_ledger (jti, pid, sid, bh, result, receipt)
		VALUES ($1, $2, $3, $4, $5, '') ON CONFLICT (jti) DO NOTHING`,
		p.ID, p.StepPermit, p.Session, p.BodyHash, string(result))
	if err != nil {
		return false, fmt.Errorf("dispatch: ledger: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("dispatch: ledger: %w", err)
	}
	return n == 1, nil
}

func store(ctx context.Context, tx *sql.Tx, jti string, result Result, receipt string) error {
	_, err := tx.ExecContext(ctx, `UPDATE dispatch_ledger SET result = $1, receipt = $2 WHERE jti = $3`, string(result), receipt, jti)
	if err != nil {
		return fmt.Errorf("dispatch: ledger: %w", err)
	}
	return nil
}

type row struct {
	session, receipt string
	result           Result
}

func load(ctx context.Context, tx *sql.Tx, jti string) (row, error) {
	var r row
	err := tx.QueryRowContext(ctx, `SELECT sid, receipt, result FROM dispatch_ledger WHERE jti = $1`, jti).Scan(&r.session, &r.receipt, &r.result)
	if err != nil {
		return row{}, fmt.Errorf("dispatch: ledger: %w", err)
	}
	return r, nil
}

// savepoint runs step so that an error leaves nothing of it in tx and no answer.
func savepoint(ctx context.Context, tx *sql.Tx, name string, step func() (Answer, error)) (Answer, error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+name); err != nil {
		return Answer{}, fmt.Errorf("dispatch: ledger: %w", err)
	}
	a, stepErr := step()
	end := "RELEASE SAVEPOINT " + name
	if stepErr != nil {
		end = "ROLLBACK TO SAVEPOINT " + name
	}
	if _, err := tx.ExecContext(ctx, end); err != nil {
		// Not a Refusal even when stepErr is one: without the undo there is no answer.
		return Answer{}, fmt.Errorf("dispatch: ledger: %s: %w", end, err)
	}
	if stepErr != nil {
		return Answer{}, stepErr // a receipt that is already signed must not get out
	}
	return a, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
