package store

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"countersign/dispatch"

	_ "modernc.org/sqlite"
)

var (
	// ErrExists is returned by Create for a folder that holds a store already.
	ErrExists = errors.New("store: the folder holds a store already")
	// ErrNotCreated is returned by Open for a folder without a store.
	ErrNotCreated = errors.New("store: the folder holds no store; create one first")
	// ErrInUse is returned by Open while another process has the folder.
	ErrInUse = errors.New("store: the folder is in use by another process")
)

// schemaVersion is SQLite's user_version of a store this program can serve.
const schemaVersion = 1

//go:embed schema.sql
var schema string

// Options say whom an opened store is and whom it trusts.
type Options struct {
	Origin string                // exact public origin, such as http://127.0.0.1:8421
	Trust  []dispatch.TrustedKey // keys whose permits count, for good; TrustFile replaces them
	// TrustFile is the control plane's dispatch.pub, lines KEY [notAfter]. It is read
	// again when it has changed, so that a new key counts, and a former one ends,
	// without a restart. While it is gone or damaged no permit counts.
	TrustFile string
	Clock     func() time.Time // nil: time.Now
	Log       *slog.Logger     // of internal errors; nil: slog.Default()
	Without   string           // a check, by its reason, that only tests leave out; no flag reaches it
}

// permitRequired is the reason of a refusal for want of a permit.
const permitRequired = "DISPATCH_PERMIT_REQUIRED"

// Store is an open store. It is safe for concurrent use.
type Store struct {
	origin  string
	secure  bool // cookies over https only
	log     *slog.Logger
	now     func() time.Time
	lock    *os.File
	write   *sql.DB // one connection, BEGIN IMMEDIATE
	read    *sql.DB
	ledger  *dispatch.Ledger
	receipt dispatch.TrustedKey

	verify  func(*http.Request, []byte) (dispatch.Permit, error)
	reached func(point string) // tests stop the process here
	without string             // a check that tests leave out, by its reason, to see that it is the one that protects
}

// Create makes a new store in dir, which it creates with mode 0700 when it is
// missing. It never changes a store that is there.
func Create(dir string) error {
	keys := filepath.Join(dir, "keys")
	for _, name := range []string{filepath.Join(dir, "store.db"), filepath.Join(keys, "receipt.key")} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s", ErrExists, name)
		}
	}
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := writeFile(filepath.Join(keys, "receipt.pub"), dispatch.FormatKeys([]dispatch.TrustedKey{{Public: public}}), 0o644); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(keys, "receipt.key"), formatPrivate(private), 0o600); err != nil {
		return err
	}
	return createDatabase(filepath.Join(dir, "store.db"))
}

func createDatabase(path string) error {
	// The database gets its name when it is complete: a half-made one is no store.
	unfinished := path + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: %w", err)
	}
	db, err := sql.Open("sqlite", dsn(unfinished, "_txlock=immediate", "_pragma=synchronous(FULL)"))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(dispatch.Schema + schema + fmt.Sprintf("PRAGMA user_version = %d;", schemaVersion)); err != nil {
		return fmt.Errorf("store: schema: %w", err)
	}
	if err := seed(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Chmod(unfinished, 0o600); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(unfinished, path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

// Open opens the store in dir and takes the folder for this process.
func Open(dir string, o Options) (_ *Store, err error) {
	origin, err := url.Parse(o.Origin)
	if err != nil || origin.Host == "" || origin.Scheme+"://"+origin.Host != o.Origin || origin.Scheme != "http" && origin.Scheme != "https" {
		return nil, fmt.Errorf("store: want an origin such as http://127.0.0.1:8421, without a path")
	}
	keys := trust{file: o.TrustFile, keys: o.Trust}
	if o.TrustFile != "" {
		keys.keys, err = keys.now()
	}
	if err != nil {
		return nil, err
	}
	if len(keys.keys) == 0 {
		return nil, errors.New("store: a store that trusts no dispatch key can sell nothing; give it the control plane's dispatch.pub")
	}
	s := &Store{origin: o.Origin, secure: origin.Scheme == "https", log: o.Log, now: o.Clock, reached: func(string) {}, without: o.Without}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if _, err := os.Stat(filepath.Join(dir, "store.db")); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotCreated, err)
	}
	if err := s.takeFolder(dir); err != nil {
		return nil, err
	}
	private, err := readPrivate(filepath.Join(dir, "keys", "receipt.key"))
	if err != nil {
		return nil, err
	}
	s.receipt = dispatch.TrustedKey{Public: private.Public().(ed25519.PublicKey)}
	if err := s.openDatabase(filepath.Join(dir, "store.db")); err != nil {
		return nil, err
	}
	s.ledger = &dispatch.Ledger{Origin: s.origin, Key: private, Now: s.now}
	verifier := dispatch.Verifier{Origin: s.origin, Now: s.now}
	s.verify = func(r *http.Request, body []byte) (dispatch.Permit, error) {
		now, unreadable := keys.now()
		v := verifier
		v.Keys = now
		p, err := v.Verify(r, body)
		if isMissing(err) && s.without == permitRequired {
			return dispatch.Permit{}, nil
		}
		if unreadable != nil && !isMissing(err) {
			return dispatch.Permit{}, unreadable
		}
		return p, err
	}
	return s, nil
}

func (s *Store) takeFolder(dir string) (err error) {
	if s.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return nil
}

func (s *Store) openDatabase(path string) (err error) {
	if s.write, err = sql.Open("sqlite", dsn(path, "mode=rw", "_txlock=immediate", "_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)", "_pragma=foreign_keys(1)")); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.write.SetMaxOpenConns(1)
	var version int
	if err := s.write.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if version != schemaVersion {
		return fmt.Errorf("store: the database has schema version %d, this program knows %d", version, schemaVersion)
	}
	if s.read, err = sql.Open("sqlite", dsn(path, "mode=rw", "_pragma=query_only(1)", "_pragma=busy_timeout(5000)")); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.read.SetMaxOpenConns(4)
	return nil
}

// Close ends the store and gives its folder back. Requests must have ended.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// ReceiptKey is the public half of the key that signs receipts.
func (s *Store) ReceiptKey() dispatch.TrustedKey { return s.receipt }

// SetPrice changes the price of a product, as a shopkeeper would. Checkouts
// that were prepared before are refused afterwards.
func (s *Store) SetPrice(ctx context.Context, productID string, priceCents int64) error {
	res, err := s.write.ExecContext(ctx, `UPDATE products SET price_cents = $1 WHERE product_id = $2`, priceCents, productID)
	if err != nil {
		return fmt.Errorf("store: price: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("store: no product %q", productID)
	}
	return nil
}

// dsn escapes path, so that no character of it becomes a setting.
func dsn(path string, settings ...string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + strings.Join(settings, "&")
}

const privateTag = "countersign-receipt-key/1 "

func formatPrivate(key ed25519.PrivateKey) []byte {
	return []byte(privateTag + base64.RawURLEncoding.EncodeToString(key.Seed()) + "\n")
}

func readPrivate(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("store: receipt key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("store: receipt key: %s is readable by others; chmod 600 it", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("store: receipt key: %w", err)
	}
	line, tagged := strings.CutPrefix(string(text), privateTag)
	seed, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimSuffix(line, "\n"))
	if !tagged || err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("store: receipt key: %s is not a receipt key", path)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// writeFile creates a file that was not there and makes it durable.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// newID returns a fresh id such as ord_4f1c….
func newID(prefix string) string {
	var b [10]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return prefix + hex.EncodeToString(b[:])
}
