package postgres

import (
	"fmt"
	"strings"
)

// arrays are the columns of rows that a statement takes through unnest, an array for each. The name, the type and the value of a
// column stand in one place.
type arrays[T any] []array[T]

type array[T any] struct {
	name, sqlType string
	values        func(rows []T) any
}

func text[T any](name string, of func(T) string) array[T] {
	return array[T]{name, "text", func(rows []T) any { return column(rows, of) }}
}

func bigint[T any](name string, of func(T) int64) array[T] {
	return array[T]{name, "bigint", func(rows []T) any { return column(rows, of) }}
}

func boolean[T any](name string, of func(T) bool) array[T] {
	return array[T]{name, "boolean", func(rows []T) any { return column(rows, of) }}
}

func bytea[T any](name string, of func(T) []byte) array[T] {
	return array[T]{name, "bytea", func(rows []T) any { return column(rows, of) }}
}

// column is one value of each.
func column[T, V any](all []T, of func(T) V) []V {
	values := make([]V, len(all))
	for i := range all {
		values[i] = of(all[i])
	}
	return values
}

// names are the columns, as a statement lists them.
func (a arrays[T]) names() string {
	return strings.Join(column(a, func(c array[T]) string { return c.name }), ", ")
}

// params are the arguments of unnest, of which the first is the parameter of that number.
func (a arrays[T]) params(first int) string {
	all := make([]string, len(a))
	for i, c := range a {
		all[i] = fmt.Sprintf("$%d::%s[]", first+i, c.sqlType)
	}
	return strings.Join(all, ", ")
}

// args are the statement's arguments: those before the arrays, and these.
func (a arrays[T]) args(rows []T, before ...any) []any {
	all := make([]any, 0, len(before)+len(a))
	all = append(all, before...)
	for _, c := range a {
		all = append(all, c.values(rows))
	}
	return all
}
