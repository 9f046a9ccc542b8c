package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"countersign/dispatch"
)

type product struct {
	ID          string `json:"productId"`
	Name        string `json:"name"`
	Maker       string `json:"maker"`
	Description string `json:"description"`
	PriceCents  cents  `json:"priceCents"`
	Currency    string `json:"currency"`
}

type line struct {
	ProductID      string `json:"productId"`
	Name           string `json:"name"`
	Quantity       int64  `json:"quantity"`
	UnitPriceCents cents  `json:"unitPriceCents"`
	LineCents      cents  `json:"lineCents"`
}

type cart struct {
	Version       int64     `json:"cartVersion"`
	Currency      string    `json:"currency"`
	Lines         []line    `json:"lines"`
	SubtotalCents cents     `json:"subtotalCents"`
	Checkout      *checkout `json:"checkout"`
}

const selectProduct = `SELECT product_id, name, maker, description, price_cents FROM products `

func scanProduct(r row) (product, error) {
	p := product{Currency: currency}
	err := r.Scan(&p.ID, &p.Name, &p.Maker, &p.Description, &p.PriceCents)
	return p, err
}

func products(ctx context.Context, q queryer) ([]product, error) {
	return list(ctx, q, "products", scanProduct, selectProduct+`ORDER BY rowid`)
}

// findProduct returns nil when there is no such product.
func findProduct(ctx context.Context, q queryer, id string) (*product, error) {
	return find(ctx, q, "product", scanProduct, selectProduct+`WHERE product_id = $1`, id)
}

func scanLine(r row) (line, error) {
	var l line
	err := r.Scan(&l.ProductID, &l.Name, &l.Quantity, &l.UnitPriceCents)
	l.LineCents = l.UnitPriceCents * cents(l.Quantity) // at most 99 x 999,999,999
	return l, err
}

// loadCart reads a session's cart at today's prices.
func (s *Store) loadCart(ctx context.Context, q queryer, of *session) (cart, error) {
	lines, err := list(ctx, q, "cart", scanLine,
		`SELECT product_id, name, quantity, price_cents FROM cart_lines JOIN products USING (product_id) WHERE sid = $1 ORDER BY product_id`, of.id)
	if err != nil {
		return cart{}, err
	}
	c := cart{Version: of.cartVersion, Currency: currency, Lines: lines}
	for _, l := range lines {
		c.SubtotalCents += l.LineCents
	}
	found, err := findCheckout(ctx, q, of)
	if err != nil {
		return cart{}, err
	}
	if found != nil && found.CartVersion == c.Version && !found.expired(s.now()) {
		c.Checkout = found
	}
	return c, nil
}

func (s *Store) addItem(body []byte) (mutation, error) {
	var req struct {
		ProductID string `json:"productId"`
		Quantity  int64  `json:"quantity"`
	}
	if err := dispatch.Decode(body, &req); err != nil {
		return nil, err
	}
	if req.ProductID == "" {
		return nil, &dispatch.RequestError{Reason: "want a product at /productId"}
	}
	if req.Quantity < 1 || req.Quantity > maxQuantity {
		return nil, &dispatch.RequestError{Reason: fmt.Sprintf("want 1 to %d at /quantity", maxQuantity)}
	}
	return func(ctx context.Context, tx *sql.Tx, _ dispatch.Permit, of *session) (reply, error) {
		if p, err := findProduct(ctx, tx, req.ProductID); err != nil {
			return reply{}, err
		} else if p == nil {
			return reply{}, dispatch.Refuse("PRODUCT_UNKNOWN", "The shop has no such product.")
		}
		quantity := req.Quantity
		held, err := find(ctx, tx, "cart", single[int64], `SELECT quantity FROM cart_lines WHERE sid = $1 AND product_id = $2`, of.id, req.ProductID)
		if err != nil {
			return reply{}, err
		}
		if held != nil {
			quantity += *held
		}
		if quantity > maxQuantity {
			return reply{}, dispatch.Refuse("QUANTITY_LIMIT", fmt.Sprintf("A cart takes at most %d of one product.", maxQuantity))
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO cart_lines (sid, product_id, quantity) VALUES ($1, $2, $3)
			ON CONFLICT (sid, product_id) DO UPDATE SET quantity = excluded.quantity`, of.id, req.ProductID, quantity); err != nil {
			return reply{}, fmt.Errorf("store: cart: %w", err)
		}
		return s.changedCart(ctx, tx, of)
	}, nil
}

func (s *Store) removeItem(body []byte) (mutation, error) {
	var req struct {
		ProductID string `json:"productId"`
	}
	if err := dispatch.Decode(body, &req); err != nil {
		return nil, err
	}
	if req.ProductID == "" {
		return nil, &dispatch.RequestError{Reason: "want a product at /productId"}
	}
	return func(ctx context.Context, tx *sql.Tx, _ dispatch.Permit, of *session) (reply, error) {
		res, err := tx.ExecContext(ctx, `DELETE FROM cart_lines WHERE sid = $1 AND product_id = $2`, of.id, req.ProductID)
		if err != nil {
			return reply{}, fmt.Errorf("store: cart: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil {
			return reply{}, fmt.Errorf("store: cart: %w", err)
		} else if n == 0 {
			return reply{}, dispatch.Refuse("NOT_IN_CART", "The cart does not hold this product.")
		}
		return s.changedCart(ctx, tx, of)
	}, nil
}

func (s *Store) changedCart(ctx context.Context, tx *sql.Tx, of *session) (reply, error) {
	if err := bumpCart(ctx, tx, of); err != nil {
		return reply{}, err
	}
	c, err := s.loadCart(ctx, tx, of)
	return reply{status: http.StatusOK, body: c}, err
}

// bumpCart raises the cart's version, which voids every checkout of the former.
func bumpCart(ctx context.Context, tx *sql.Tx, of *session) error {
	if _, err := tx.ExecContext(ctx, `UPDATE sessions SET cart_version = cart_version + 1 WHERE sid = $1`, of.id); err != nil {
		return fmt.Errorf("store: cart: %w", err)
	}
	of.cartVersion++
	return nil
}

// checkout is what a cart would cost, good for one cart version and ten minutes.
type checkout struct {
	ID            string `json:"checkoutId"`
	CartVersion   int64  `json:"cartVersion"`
	Lines         []line `json:"lines"`
	SubtotalCents cents  `json:"subtotalCents"`
	ShippingCents cents  `json:"shippingCents"`
	TaxCents      cents  `json:"taxCents"`
	TotalCents    cents  `json:"totalCents"`
	Currency      string `json:"currency"`
	AddressRef    string `json:"addressRef"`
	ExpiresAt     string `json:"expiresAt"`
}

func (c *checkout) expired(now time.Time) bool {
	// A time that cannot be read counts as past.
	expires, err := time.Parse(timeLayout, c.ExpiresAt)
	return err != nil || !now.Before(expires)
}
