module palyra/packaging

go 1.26.0
