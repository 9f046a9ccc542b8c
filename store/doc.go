// Package store is the hosted example storefront: a shop of synthetic goods that
// changes nothing without a dispatch permit. Of countersign it imports only
// package dispatch, so it also shows what any shop has to add.
//
// [Create] makes a folder with store.db (SQLite), keys/receipt.key (0600) and
// keys/receipt.pub; [Open] opens it, and [Store.Handler] serves it. A folder
// belongs to one process at a time. Sessions, carts, checkouts, orders and the
// permit ledger are one database, so an effect and its spent permit are one
// commit. [Options].TrustFile is the control plane's dispatch.pub: the
// store notices that it changed, so a rotated key needs no restart. Replace the
// file in one step, by renaming another over it. What the protocol calls a local
// store is this one, over SQLite.
//
// # HTTP
//
// A mutation carries its permit in Countersign-Permit and, except for a new
// session and a probe, the session's cookie; the permit's sid must be that
// session. Its answer carries Countersign-Receipt when the permit counted.
//
//	POST /api/sessions             {}                                    201 {sessionId, cartVersion, currency, expiresAt}
//	POST /api/cart/items           {productId, quantity}                 200 cart
//	POST /api/cart/items/remove    {productId}                           200 cart
//	POST /api/checkouts            {cartVersion, addressRef}             201 checkout
//	POST /api/orders               {checkoutId, cartVersion, amountCents,
//	                                currency, destination}               201 order
//	POST /api/dispatches/close     {jti}                                 200 {jti, result}
//
//	GET /api/catalog               {currency, products, addressRefs, shippingCents, taxCents}
//	GET /api/products/{productId}  {productId, name, maker, description, priceCents, currency}
//	GET /api/cart                  {cartVersion, currency, lines, subtotalCents, checkout or null}
//	GET /api/orders/{orderId}      {orderId, checkoutId, cartVersion, lines, subtotalCents, shippingCents,
//	                                taxCents, totalCents, currency, addressRef, placedAt}
//
// A checkout is {checkoutId, cartVersion, lines, subtotalCents, shippingCents,
// taxCents, totalCents, currency, addressRef, expiresAt}; lines are {productId,
// name, quantity, unitPriceCents, lineCents}. Members named *Cents are cents as
// decimal strings, times are RFC 3339 in UTC with milliseconds, cartVersion is an
// integer that every change of the cart raises. The cart shows the checkout that
// can be ordered now: the newest, of this cart version, not expired. An order
// empties the cart.
//
// POST /api/sessions adopts the permit's sid and sets the cookie store_session
// (HttpOnly, SameSite=Lax, host-only), a random value of which only the hash is
// stored. Reads of the API need that cookie and no permit; it authorizes nothing
// else. Every page sets store_visitor, which authorizes nothing at all.
//
// Errors are application/problem+json with reasonCode:
//
//	400 INVALID_REQUEST, FOREIGN_COOKIE    403 DISPATCH_PERMIT_INVALID    413 BODY_TOO_LARGE
//	401 DISPATCH_PERMIT_REQUIRED,          404 NOT_FOUND                  415 CONTENT_TYPE_REJECTED
//	    AUTHENTICATION_REQUIRED            409 DISPATCH_PERMIT_SPENT      500 INTERNAL
//
// and, with a signed receipt "refused", 422: SESSION_EXISTS, PRODUCT_UNKNOWN,
// QUANTITY_LIMIT, NOT_IN_CART, CART_EMPTY, CART_CHANGED, ADDRESS_UNKNOWN,
// CHECKOUT_UNKNOWN, CHECKOUT_EXPIRED, PRICE_CHANGED, AMOUNT_MISMATCH,
// CURRENCY_MISMATCH, DESTINATION_MISMATCH. A body that cannot be read is refused
// without spending its permit.
//
// # Pages
//
// /, /products/{productId}, /cart, /checkout and /orders/{orderId} are for people.
// They show what the API shows. Their buttons press the same API, which answers a
// browser with a page that says why nothing happened.
package store
