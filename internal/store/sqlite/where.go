package sqlite

import (
	"cmp"
	"fmt"
	"strings"
)

// whereClause collects the conditions of a listing, newest first.
// Conditions are constants with ? for each argument.
type whereClause struct {
	conditions []string
	args       []any
	// order is the column that orders the listing; "" means id.
	order string
	// ascending lists the smallest first.
	ascending bool
}

func (w *whereClause) add(condition string, args ...any) {
	w.conditions = append(w.conditions, condition)
	w.args = append(w.args, args...)
}

// whereIn adds "column is one of values"; no values mean no condition.
func whereIn[T ~string](w *whereClause, column string, values []T) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	w.add(column+" IN (?"+strings.Repeat(", ?", len(values)-1)+")", args...)
}

// whereNotIn adds "column is none of values".
func whereNotIn[T ~string](w *whereClause, column string, values []T) {
	if len(values) > 0 {
		whereIn(w, column+" NOT", values)
	}
}

// text returns the conditions alone.
func (w *whereClause) text() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// sql returns the clause with its order and limit.
func (w *whereClause) sql(limit int) string {
	way := "DESC"
	if w.ascending {
		way = "ASC"
	}
	return w.text() + fmt.Sprintf(" ORDER BY %s %s LIMIT %d", cmp.Or(w.order, "id"), way, limit)
}
