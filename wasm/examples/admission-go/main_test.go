package main

import (
	"testing"
	"time"
)

// TestOfficeHours has package time as its oracle for every half hour of two weeks.
func TestOfficeHours(t *testing.T) {
	var h hours
	if err := h.Configure([]byte(`{"office_hours_utc": [9, 17]}`)); err != nil {
		t.Fatal(err)
	}
	for at := time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC); at.Day() != 6; at = at.Add(30 * time.Minute) {
		want := int64(0)
		if d := at.Weekday(); d != time.Saturday && d != time.Sunday && at.Hour() >= 9 && at.Hour() < 17 {
			want = int64(time.Date(at.Year(), at.Month(), at.Day(), 17, 0, 0, 0, time.UTC).Sub(at).Seconds())
		}
		if got := h.officeLeft(at.Unix()); got != want {
			t.Fatalf("%s: %d seconds left, want %d", at, got, want)
		}
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, config := range []string{`{"office_hours_utc":[9,8]}`, `{"office_hours_utc":[0,25]}`, `{"busy_percent":101}`, `{"hours":1}`, `7`} {
		if err := new(hours).Configure([]byte(config)); err == nil {
			t.Errorf("%s was taken", config)
		}
	}
}
