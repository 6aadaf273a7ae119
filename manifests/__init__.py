"""What a prepared dataset is: its records, files and formats. `open_dataset` reads one."""
