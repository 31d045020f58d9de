"""What is measured on each image, one file per part."""
