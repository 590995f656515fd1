module example.org/skills

go 1.26.0
