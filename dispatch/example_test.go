package dispatch_test

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"countersign/dispatch"

	_ "modernc.org/sqlite"
)

// shop sells one thing. It trusts a control plane's key and has a key of its own.
type shop struct {
	db       *sql.DB
	verifier *dispatch.Verifier
	ledger   *dispatch.Ledger
}

func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	s.mutate(w, r, func(ctx context.Context, tx *sql.Tx, permit dispatch.Permit, body []byte) (dispatch.Answer, error) {
		var order struct {
			Quantity    int    `json:"quantity"`
			AmountCents string `json:"amountCents"`
		}
		if err := dispatch.Decode(body, &order); err != nil {
			return dispatch.Answer{}, err
		}
		return s.ledger.Spend(ctx, tx, permit, func() (dispatch.Effect, error) {
			var price int
			if err := tx.QueryRowContext(ctx, `SELECT price FROM goods`).Scan(&price); err != nil {
				return dispatch.Effect{}, err
			}
			if order.AmountCents != fmt.Sprint(price*order.Quantity) {
				return dispatch.Effect{}, dispatch.Refuse("PRICE_CHANGED", "The price is not the approved one.")
			}
			id := "ord_" + permit.ID
			if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, quantity) VALUES ($1, $2)`, id, order.Quantity); err != nil {
				return dispatch.Effect{}, err
			}
			return dispatch.Effect{Status: 201, Body: []byte(`{"orderId":"` + id + `"}`), OrderID: id, AmountCents: order.AmountCents}, nil
		})
	})
}

func (s *shop) close(w http.ResponseWriter, r *http.Request) {
	s.mutate(w, r, func(ctx context.Context, tx *sql.Tx, probe dispatch.Permit, body []byte) (dispatch.Answer, error) {
		jti, err := dispatch.ParseCloseBody(body)
		if err != nil {
			return dispatch.Answer{}, err
		}
		return s.ledger.Close(ctx, tx, probe, jti)
	})
}

// mutate is the frame of every change: verified permit, one transaction, and an
// answer only after the commit.
func (s *shop) mutate(w http.ResponseWriter, r *http.Request, step func(context.Context, *sql.Tx, dispatch.Permit, []byte) (dispatch.Answer, error)) {
	answer, err := func() (dispatch.Answer, error) {
		body, err := dispatch.ReadBody(r)
		if err != nil {
			return dispatch.Answer{}, err
		}
		permit, err := s.verifier.Verify(r, body)
		if err != nil {
			return dispatch.Answer{}, err
		}
		ctx := context.WithoutCancel(r.Context()) // a sender that leaves decides nothing
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return dispatch.Answer{}, err
		}
		defer tx.Rollback()
		answer, err := step(ctx, tx, permit, body)
		if err != nil {
			return dispatch.Answer{}, err
		}
		return answer, tx.Commit()
	}()
	if err != nil {
		answer = dispatch.AnswerError(err)
	}
	answer.Write(w)
}

// A complete shop and the control plane's side of one order: sent, sent again,
// and with a price that is not the shop's.
func Example() {
	planePublic, planeKey, _ := ed25519.GenerateKey(nil)
	shopPublic, shopKey, _ := ed25519.GenerateKey(nil)

	db, err := sql.Open("sqlite", "file::memory:?_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // one database in memory
	if _, err := db.Exec(dispatch.Schema + `
		CREATE TABLE goods (price INTEGER); INSERT INTO goods VALUES (13700);
		CREATE TABLE orders (id TEXT PRIMARY KEY, quantity INTEGER);`); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	origin := "http://" + listener.Addr().String()
	s := &shop{
		db:       db,
		verifier: &dispatch.Verifier{Origin: origin, Keys: []dispatch.TrustedKey{{Public: planePublic}}},
		ledger:   &dispatch.Ledger{Origin: origin, Key: shopKey},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/orders", s.order)
	mux.HandleFunc("POST "+dispatch.ClosePath, s.close)
	go http.Serve(listener, mux)
	defer listener.Close()

	client := dispatch.NewClient(nil)
	send := func(jti, body string) {
		now := time.Now().Unix()
		permit := dispatch.Permit{
			Issuer: "http://localhost:8420", Audience: origin, IssuedAt: now, ExpiresAt: now + 30,
			ID: jti, Session: "session", StepPermit: "step", Method: "POST", Target: origin + "/api/orders",
			BodyHash: dispatch.HashBody([]byte(body)), EffectDigest: strings.Repeat("e", 64),
		}
		token, err := permit.Sign(planeKey)
		if err != nil {
			log.Fatal(err)
		}
		answer, err := client.Send(context.Background(), dispatch.Request{Method: "POST", URL: permit.Target, Body: []byte(body), Permit: token})
		if err != nil {
			log.Fatal(err)
		}
		receipt, err := dispatch.ParseReceipt(answer.Receipt, []dispatch.TrustedKey{{Public: shopPublic}})
		if err == nil {
			err = receipt.Answers(permit)
		}
		fmt.Println(answer.Status, receipt.Result, err)
	}
	send("exec-1", `{"amountCents":"13700","quantity":1}`)
	send("exec-1", `{"amountCents":"13700","quantity":1}`)
	send("exec-2", `{"amountCents":"12900","quantity":1}`)
	// Output:
	// 201 applied <nil>
	// 409 applied <nil>
	// 422 refused <nil>
}
