package store

import (
	"database/sql"
	"fmt"
)

const (
	currency      = "USD"
	shippingCents = cents(800)
	taxCents      = cents(0)
	maxQuantity   = 99 // of one product in a cart; the stock itself never runs out
)

// seed fills a new shop with synthetic goods and addresses (G-06).
func seed(tx *sql.Tx) error {
	for _, p := range []product{
		{"fieldwork-keyboard", "Fieldwork keyboard", "Fieldwork", "Low-profile mechanical keyboard, 75 keys, aluminium frame, cable included.", 12900, currency},
		{"fieldworks-keyboard", "Fieldworks keyboard", "Fieldworks Trading", "Keyboard with 75 keys. Not made by Fieldwork.", 12900, currency},
		{"fieldwork-mouse", "Fieldwork mouse", "Fieldwork", "Three buttons and a wheel, for either hand.", 4900, currency},
		{"fieldwork-desk-mat", "Fieldwork desk mat", "Fieldwork", "Wool felt, 80 by 40 centimetres.", 3900, currency},
	} {
		if _, err := tx.Exec(`INSERT INTO products (product_id, name, maker, description, price_cents) VALUES ($1, $2, $3, $4, $5)`,
			p.ID, p.Name, p.Maker, p.Description, int64(p.PriceCents)); err != nil {
			return fmt.Errorf("store: products: %w", err)
		}
	}
	for ref, label := range map[string]string{"addr_home": "Home (synthetic)", "addr_office": "Office (synthetic)"} {
		if _, err := tx.Exec(`INSERT INTO addresses (address_ref, label) VALUES ($1, $2)`, ref, label); err != nil {
			return fmt.Errorf("store: addresses: %w", err)
		}
	}
	return nil
}
