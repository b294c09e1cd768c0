package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"sluice/internal/metrics"
	"sluice/plugins/kit"
)

// startRecord begins to record the batches of all ranks to a file, and shows how many. The caller closes the recording
// once no rank runs.
func startRecord(path string, ranks int, reg *metrics.Registry, logger *slog.Logger) (*kit.Recording, error) {
	f, err := openRecord(path)
	if err != nil {
		return nil, err
	}
	r, err := kit.NewRecording(f, kit.RecordingOptions{Ranks: ranks, Log: logger})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	reg.NewCounterFunc("record_frames_total", "Policy batches written to the file of --record; absent without.",
		func() float64 { return float64(r.Written()) })
	reg.NewCounterFunc("record_dropped_total", "Policy batches that the file of --record lacks: it was too slow, or could not be written; absent without.",
		func() float64 { return float64(r.Dropped()) })
	return r, nil
}

// openRecord makes the file, or takes one that holds no frame, as a start that failed leaves it. Ticks of two runs are
// not to be told apart, so a record is not gone on with.
func openRecord(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := emptyRecord(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func emptyRecord(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	r, err := kit.NewRecordReader(f)
	if err == nil {
		err = r.Next(&kit.Frame{})
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("the file is there and holds %d bytes; name a new one", info.Size())
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
