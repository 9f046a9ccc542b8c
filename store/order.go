package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"

	"countersign/dispatch"
)

func (s *Store) prepareCheckout(body []byte) (mutation, error) {
	var req struct {
		CartVersion *int64 `json:"cartVersion"`
		AddressRef  string `json:"addressRef"`
	}
	if err := dispatch.Decode(body, &req); err != nil {
		return nil, err
	}
	if req.CartVersion == nil || req.AddressRef == "" {
		return nil, &dispatch.RequestError{Reason: "want cartVersion and addressRef"}
	}
	return func(ctx context.Context, tx *sql.Tx, _ dispatch.Permit, of *session) (reply, error) {
		now, err := s.loadCart(ctx, tx, of)
		if err != nil {
			return reply{}, err
		}
		if *req.CartVersion != now.Version && s.without != "CART_CHANGED" {
			return reply{}, dispatch.Refuse("CART_CHANGED", "The cart has another version than the request names.")
		}
		if len(now.Lines) == 0 {
			return reply{}, dispatch.Refuse("CART_EMPTY", "There is nothing in the cart.")
		}
		refs, err := addressRefs(ctx, tx)
		if err != nil {
			return reply{}, err
		}
		if !slices.Contains(refs, req.AddressRef) {
			return reply{}, dispatch.Refuse("ADDRESS_UNKNOWN", "The shop knows no such address.")
		}
		c := checkout{
			ID: newID("chk_"), CartVersion: now.Version, Lines: now.Lines, SubtotalCents: now.SubtotalCents,
			ShippingCents: shippingCents, TaxCents: taxCents, TotalCents: now.SubtotalCents + shippingCents + taxCents,
			Currency: currency, AddressRef: req.AddressRef, ExpiresAt: formatTime(s.now().Add(checkoutLifetime)),
		}
		document, err := dispatch.Encode(c)
		if err != nil {
			return reply{}, fmt.Errorf("store: checkout: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO checkouts (sid, checkout_id, document) VALUES ($1, $2, $3)
			ON CONFLICT (sid) DO UPDATE SET checkout_id = excluded.checkout_id, document = excluded.document`, of.id, c.ID, string(document)); err != nil {
			return reply{}, fmt.Errorf("store: checkout: %w", err)
		}
		return reply{status: http.StatusCreated, body: c}, nil
	}, nil
}

// findCheckout returns nil when the session has none.
func findCheckout(ctx context.Context, q queryer, of *session) (*checkout, error) {
	return find(ctx, q, "checkout", document[checkout], `SELECT document FROM checkouts WHERE sid = $1`, of.id)
}

func addressRefs(ctx context.Context, q queryer) ([]string, error) {
	return list(ctx, q, "addresses", single[string], `SELECT address_ref FROM addresses ORDER BY address_ref`)
}

type order struct {
	ID            string `json:"orderId"`
	CheckoutID    string `json:"checkoutId"`
	CartVersion   int64  `json:"cartVersion"`
	Lines         []line `json:"lines"`
	SubtotalCents cents  `json:"subtotalCents"`
	ShippingCents cents  `json:"shippingCents"`
	TaxCents      cents  `json:"taxCents"`
	TotalCents    cents  `json:"totalCents"`
	Currency      string `json:"currency"`
	AddressRef    string `json:"addressRef"`
	PlacedAt      string `json:"placedAt"`
}

// orderRequest names everything that was approved.
type orderRequest struct {
	CheckoutID  string `json:"checkoutId"`
	CartVersion *int64 `json:"cartVersion"`
	AmountCents *cents `json:"amountCents"`
	Currency    string `json:"currency"`
	Destination string `json:"destination"`
}

func (s *Store) placeOrder(body []byte) (mutation, error) {
	var req orderRequest
	if err := dispatch.Decode(body, &req); err != nil {
		return nil, err
	}
	if req.CheckoutID == "" || req.CartVersion == nil || req.AmountCents == nil || req.Currency == "" || req.Destination == "" {
		return nil, &dispatch.RequestError{Reason: "want checkoutId, cartVersion, amountCents, currency and destination"}
	}
	return func(ctx context.Context, tx *sql.Tx, p dispatch.Permit, of *session) (reply, error) {
		c, err := findCheckout(ctx, tx, of)
		if err != nil {
			return reply{}, err
		}
		now, err := s.loadCart(ctx, tx, of)
		if err != nil {
			return reply{}, err
		}
		if err := s.compare(req, c, now); err != nil {
			return reply{}, err
		}
		o := order{
			ID: newID("ord_"), CheckoutID: c.ID, CartVersion: c.CartVersion, Lines: c.Lines, SubtotalCents: c.SubtotalCents, ShippingCents: c.ShippingCents,
			TaxCents: c.TaxCents, TotalCents: c.TotalCents, Currency: c.Currency, AddressRef: c.AddressRef, PlacedAt: formatTime(s.now()),
		}
		if err := saveOrder(ctx, tx, p, of, o); err != nil {
			return reply{}, err
		}
		return reply{status: http.StatusCreated, body: o, orderID: o.ID, amountCents: o.TotalCents.String()}, nil
	}, nil
}

// compare holds what was approved against what the shop has now. Anything that
// differs is a refusal: the shop charges the approved amount or nothing.
func (s *Store) compare(req orderRequest, c *checkout, now cart) error {
	if c == nil {
		return dispatch.Refuse("CHECKOUT_UNKNOWN", "This session has no checkout.")
	}
	for _, check := range []struct {
		code, detail string
		differs      bool
	}{
		{"CHECKOUT_UNKNOWN", "This session has no such checkout.", c.ID != req.CheckoutID},
		{"CHECKOUT_EXPIRED", "The checkout is over ten minutes old.", c.expired(s.now())},
		{"CART_CHANGED", "The cart changed after the checkout was prepared.", *req.CartVersion != c.CartVersion || c.CartVersion != now.Version},
		{"PRICE_CHANGED", "A price changed after the checkout was prepared.",
			!slices.Equal(c.Lines, now.Lines) || c.TotalCents != now.SubtotalCents+shippingCents+taxCents},
		{"AMOUNT_MISMATCH", "The approved amount is not the checkout's total.", *req.AmountCents != c.TotalCents},
		{"CURRENCY_MISMATCH", "The approved currency is not the checkout's.", req.Currency != c.Currency},
		{"DESTINATION_MISMATCH", "The approved destination is not the checkout's address.", req.Destination != c.AddressRef},
	} {
		if check.differs && check.code != s.without {
			return dispatch.Refuse(check.code, check.detail)
		}
	}
	return nil
}

func saveOrder(ctx context.Context, tx *sql.Tx, p dispatch.Permit, of *session, o order) error {
	document, err := dispatch.Encode(o)
	if err != nil {
		return fmt.Errorf("store: order: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (order_id, sid, checkout_id, jti, total_cents, document) VALUES ($1, $2, $3, $4, $5, $6)`,
		o.ID, of.id, o.CheckoutID, p.ID, int64(o.TotalCents), string(document)); err != nil {
		return fmt.Errorf("store: order: %w", err)
	}
	for _, statement := range []string{`DELETE FROM checkouts WHERE sid = $1`, `DELETE FROM cart_lines WHERE sid = $1`} {
		if _, err := tx.ExecContext(ctx, statement, of.id); err != nil {
			return fmt.Errorf("store: order: %w", err)
		}
	}
	return bumpCart(ctx, tx, of)
}

// findOrder returns nil when the session has no such order.
func findOrder(ctx context.Context, q queryer, of *session, id string) (*order, error) {
	return find(ctx, q, "order", document[order], `SELECT document FROM orders WHERE order_id = $1 AND sid = $2`, id, of.id)
}
