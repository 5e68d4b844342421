module holdfast.invalid/upstream

go 1.24
