// Package option describes the options of a measurement, each in one place:
// where its value is kept, its flag, its default and what it may be.
package option

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"
)

// Option is one option, or with Check alone a rule about several.
type Option struct {
	reset    func()
	register func(*pflag.FlagSet)
	check    func() error
}

// List are the options of one measurement.
type List []Option

// Reset gives every option its default.
func (l List) Reset() {
	for _, o := range l {
		if o.reset != nil {
			o.reset()
		}
	}
}

// Register adds the flags, whose defaults are the present values.
func (l List) Register(f *pflag.FlagSet) {
	for _, o := range l {
		if o.register != nil {
			o.register(f)
		}
	}
}

// Validate names each option that is out of its bounds, as its flag.
func (l List) Validate() error {
	var errs []error
	for _, o := range l {
		errs = append(errs, o.check())
	}
	return errors.Join(errs...)
}

// New describes an option of any type. wrong says what is wrong with its value, "" for nothing.
func New[T any](p *T, name string, value T, usage string, register func(*pflag.FlagSet, *T, string, T, string),
	wrong func(T) string) Option {
	return Option{
		reset:    func() { *p = value },
		register: func(f *pflag.FlagSet) { register(f, p, name, *p, usage) },
		check: func() error {
			if why := wrong(*p); why != "" {
				return fmt.Errorf("--%s is %s", name, why)
			}
			return nil
		},
	}
}

// Check is a rule without a flag of its own.
func Check(check func() error) Option { return Option{check: check} }

// within says that a value is not from low to high, which may be the largest there is.
func within[T cmp.Ordered](low, high, largest T) func(T) string {
	return func(v T) string {
		switch {
		case v >= low && v <= high:
			return ""
		case high == largest:
			return fmt.Sprintf("%v, want at least %v", v, low)
		}
		return fmt.Sprintf("%v, want %v to %v", v, low, high)
	}
}

// Int is a number from low to high; math.MaxInt is no bound.
func Int(p *int, name string, value, low, high int, usage string) Option {
	return New(p, name, value, usage, (*pflag.FlagSet).IntVar, within(low, high, math.MaxInt))
}

// Unlimited is no upper bound of a duration.
const Unlimited = time.Duration(math.MaxInt64)

// Duration is a time from low to high.
func Duration(p *time.Duration, name string, value, low, high time.Duration, usage string) Option {
	return New(p, name, value, usage, (*pflag.FlagSet).DurationVar, within(low, high, Unlimited))
}

// Float is a number from low to high.
func Float(p *float64, name string, value, low, high float64, usage string) Option {
	return New(p, name, value, usage, (*pflag.FlagSet).Float64Var, within(low, high, math.Inf(1)))
}

// Positive is a number above 0.
func Positive(p *float64, name string, value float64, usage string) Option {
	return New(p, name, value, usage, (*pflag.FlagSet).Float64Var, func(v float64) string {
		if v > 0 {
			return ""
		}
		return fmt.Sprintf("%v, want more than 0", v)
	})
}

// Text is a text; where want says what it is, it may not be empty.
func Text(p *string, name, value, want, usage string) Option {
	return New(p, name, value, usage, (*pflag.FlagSet).StringVar, func(v string) string {
		if v == "" && want != "" {
			return "missing, want " + want
		}
		return ""
	})
}

// Texts are any number of texts, none by default.
func Texts(p *[]string, name, usage string) Option {
	return New(p, name, nil, usage, (*pflag.FlagSet).StringSliceVar, func([]string) string { return "" })
}
