package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// tx is the writer's connection with its statements. It speaks to the driver
// itself: database/sql would add a lock and several allocations to each of the
// dozen statements of a commit, and the writer needs neither pool nor context.
type tx struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
	fault func(point string) error
}

func openTx(path string, fault func(string) error) (*tx, error) {
	db, err := sql.Open("sqlite", "") // for its driver; opens nothing
	if err != nil {
		return nil, err
	}
	defer db.Close()
	conn, err := db.Driver().Open(writerDSN(path))
	if err != nil {
		return nil, err
	}
	return &tx{conn: conn, stmts: make(map[string]driver.Stmt), fault: fault}, nil
}

// close frees the connection; an open transaction is rolled back.
func (t *tx) close() error {
	var errs []error
	for _, s := range t.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, t.conn.Close())...)
}

func (t *tx) prepare(query string) (driver.Stmt, error) {
	if s, ok := t.stmts[query]; ok {
		return s, nil
	}
	s, err := t.conn.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("%w in %q", err, query)
	}
	t.stmts[query] = s
	return s, nil
}

func (t *tx) bind(args []any) []driver.NamedValue {
	t.args = t.args[:0]
	for i, a := range args {
		t.args = append(t.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return t.args
}

// exec runs one statement, then passes the fail point, and returns how many
// rows it changed. Values are int64, string, []byte or nil.
func (t *tx) exec(point, query string, args ...any) (changed int64, err error) {
	s, err := t.prepare(query)
	if err != nil {
		return 0, err
	}
	r, err := s.(driver.StmtExecContext).ExecContext(context.Background(), t.bind(args))
	if err != nil {
		return 0, err
	}
	if changed, err = r.RowsAffected(); err != nil {
		return 0, err
	}
	return changed, t.at(point)
}

// number returns the first column of the first row, or found = false.
func (t *tx) number(point, query string, args ...any) (n int64, found bool, err error) {
	err = t.each(query, func(row []driver.Value) error {
		n, found = row[0].(int64), true
		return nil
	}, args...)
	if err != nil {
		return 0, false, err
	}
	return n, found, t.at(point)
}

// each calls f with every row; the values are valid during the call.
func (t *tx) each(query string, f func(row []driver.Value) error, args ...any) (err error) {
	s, err := t.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), t.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
}

// at passes a fail point.
func (t *tx) at(point string) error {
	if t.fault == nil || point == "" {
		return nil
	}
	return t.fault(point)
}
